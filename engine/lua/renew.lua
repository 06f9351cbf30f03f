-- The engine is alive. ARGV: lease_ms, then (id, fence)...  Returns per request HELD, FORGOTTEN, VOID, or 1: cancelled.
local CANCELLED = 1
local until_ms = now_ms() + ARGV[1]
local replies = {}
for i = 2, #ARGV, 2 do
  local state, fence, is_cancelled =
    unpack(redis.call('HMGET', request_key(ARGV[i]), 'state', 'fence', 'is_cancelled'))
  local reply = standing(state, fence, tonumber(ARGV[i + 1]))
  if reply == HELD then
    redis.call('ZADD', 'hearth:leases', until_ms, ARGV[i])
    if is_cancelled then reply = CANCELLED end
  end
  table.insert(replies, reply)
end
return replies
