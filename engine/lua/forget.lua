-- web -> engines: something is to be forgotten. Said again it takes the place of the time before: nothing is
-- trimmed, however long an engine is down, and the stream is as long as there are things to forget.
local command = unpack(ARGV)
local former = redis.call('HGET', 'hearth:forget-entries', command)
if former then redis.call('XDEL', 'hearth:forget', former) end
local entry = redis.call('XADD', 'hearth:forget', '*', 'm', command)
redis.call('HSET', 'hearth:forget-entries', command, entry)
