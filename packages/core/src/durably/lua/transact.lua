local effect = function(KEYS, ARGV, redis, server) -- @effect
end
-- Runs an effect and records what it returns, as one step, at most once over all passes.
--
-- The effect stands before everything else, on the first line: it sees no name of the wrapper, and an error in it tells
-- its own line.
--
-- Lua has no rollback: an effect whose second write fails has done its first. So its commands go through a watch.
-- A command that errors changed nothing; whatever is not known to read counts as a write. Before the first write
-- a mark goes into the claim's hash, and the record takes it off again. An effect that fails before any write has
-- not happened: its error reaches the caller and nothing is left. One that fails after a write is torn: the mark
-- stays, holds the message, and no pass runs the step again until the mark is cleared.
--
-- A call that is sent twice finds the record, or the mark, of the first.
-- KEYS[1] the records' hash  KEYS[2] the claim's hash  KEYS[3..] the effect's keys
-- ARGV[1] step  ARGV[2] token  ARGV[3] ttl, ms  ARGV[4] the encoding's kind: json, msgpack, bytes, text
-- ARGV[5] '1': an acknowledgement follows (see write.lua)  ARGV[6..] the effect's arguments
-- returns {0, encoding} when the effect ran; {1, what is recorded, with its prefix} when there was a record
-- errors  FENCED when the claim is another's, or gone; TORN and a message; NOTTEXT and a message; the effect's own
-- @include now
-- @include utf8
-- @include alive
-- @include keep
local records, pass, step, token, ttl = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local mark = 'torn:' .. step
local held = redis.call('HMGET', pass, 'token', 'until', 'for', mark, 'seen')
if not held[1] or token < tonumber(held[1]) then return redis.error_reply('FENCED the claim is not held any more') end
local stored = redis.call('HGET', records, step)
if stored then
  if ARGV[5] == '1' then redis.call('HSET', records, step, stored) end
  return {1, stored}
end
if held[4] then return redis.error_reply('TORN ' .. held[4]) end

local reads = {}
for name in string.gmatch([[
  GET MGET GETRANGE SUBSTR STRLEN GETBIT BITCOUNT BITPOS BITFIELD_RO EXISTS TYPE TTL PTTL EXPIRETIME PEXPIRETIME
  HGET HMGET HGETALL HKEYS HVALS HLEN HEXISTS HSTRLEN HSCAN HRANDFIELD
  LLEN LINDEX LRANGE LPOS SCARD SISMEMBER SMISMEMBER SMEMBERS SRANDMEMBER SSCAN SINTER SUNION SDIFF SINTERCARD
  ZCARD ZCOUNT ZLEXCOUNT ZSCORE ZMSCORE ZRANK ZREVRANK ZRANGE ZRANGEBYSCORE ZRANGEBYLEX ZREVRANGE ZREVRANGEBYSCORE
  ZREVRANGEBYLEX ZRANDMEMBER ZSCAN ZDIFF ZINTER ZUNION ZINTERCARD
  XLEN XRANGE XREVRANGE XREAD XINFO XPENDING GEOPOS GEODIST GEOHASH GEOSEARCH PFCOUNT TIME PING ECHO DBSIZE OBJECT MEMORY
]], '%S+') do reads[name] = true end

local marked, wrote = false, false
local function watch(raise, ...)
  local reading = reads[string.upper(tostring((...)))]
  if not reading and not marked then
    redis.call('HSET', pass, mark, 'the effect was stopped before its end')
    marked = true
  end
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    if raise then error(reply, 0) end
  elseif not reading then
    wrote = true
  end
  return reply
end
local watched = setmetatable({
  call = function(...) return watch(true, ...) end,
  pcall = function(...) return watch(false, ...) end,
}, {__index = redis})

local keys, args = {}, {}
for i = 3, #KEYS do keys[i - 2] = KEYS[i] end
for i = 6, #ARGV do args[i - 5] = ARGV[i] end
local ran, result = pcall(effect, keys, args, watched, watched)

local failure, code = nil, ''
if not ran then
  failure = type(result) == 'table' and result.err or tostring(result)
elseif type(result) == 'table' and result.err then
  failure = result.err
elseif type(result) ~= 'string' then
  local kind = type(result)
  if kind == 'boolean' then kind = 'nil or ' .. tostring(result) end
  failure, code = 'the effect returned ' .. kind .. ', not text', 'NOTTEXT '
elseif ARGV[4] == 'msgpack' then
  local fine, _, more = pcall(cmsgpack.unpack, result)
  if fine and #result > 0 and more == nil then
    result = '\193' .. result
  else
    failure, code = 'the effect returned what is no MessagePack (try cmsgpack.pack)', 'NOTTEXT '
  end
elseif ARGV[4] ~= 'bytes' and not is_utf8(result) then
  failure, code = 'the effect returned bytes that are no UTF-8 text', 'NOTTEXT '
elseif ARGV[4] == 'json' and not pcall(cjson.decode, result) then
  failure, code = 'the effect returned text that is no JSON (try cjson.encode)', 'NOTTEXT '
end
local now = now_ms()
if failure then
  failure = string.gsub(failure, '[\r\n]+', ' ')
  if wrote then
    redis.call('HSET', pass, mark, failure)
    keep(pass, math.max(0, tonumber(held[2] or '0') - now) + 2 * ttl)
    return redis.error_reply('TORN ' .. failure)
  end
  if marked then redis.call('HDEL', pass, mark) end
  if code == '' and (string.find(failure, '^FENCED ') or string.find(failure, '^TORN ') or string.find(failure, '^NOTTEXT ')) then
    code = 'ERR the effect said: '
  end
  return redis.error_reply(code .. failure)
end
local position = redis.call('HLEN', records)
redis.call('HSET', records, step, position .. ':' .. string.format('%.0f', now) .. ':' .. result)
keep(records, ttl, position == 0)
if marked then redis.call('HDEL', pass, mark) end
local seen = tonumber(held[5] or position) + 1
sign_of_life(pass, records, now, tonumber(held[2] or '0'), tonumber(held[3] or '0'), ttl, seen)
return {0, result}
