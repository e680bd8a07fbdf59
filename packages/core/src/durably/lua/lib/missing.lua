-- One record more, of a workflow that had `there`: where its last pass knew of more than that, as many are missing as
-- before, so that the next claim sees it.
local function keep_missing(pass, there)
  if there < tonumber(redis.call('HGET', pass, 'seen') or '0') then redis.call('HINCRBY', pass, 'seen', 1) end
end
