-- Asks for a pass: one entry more.
-- KEYS[1] ready stream
-- ARGV[1] workflow
-- returns 1
-- errors  none of its own
redis.call('XADD', KEYS[1], '*', 'workflow', ARGV[1])
return 1
