-- A live engine re-asserts a request that Redis forgot, with all its events from seq 0, same seqs.
-- ARGV: engine, lease_ms, id, fence, 1 if it has ended, number of hash values, (field, value)..., events...
-- Returns the next seq, or VOID when somebody else has taken the request meanwhile.
local engine, lease_ms, id, fence, is_ended, num_values = unpack(ARGV, 1, 6)
local state, stored_fence, model, class, tenant = unpack(redis.call('HMGET', request_key(id),
  'state', 'fence', 'model', 'priority', 'tenant'))
local verdict = standing(state, stored_fence, tonumber(fence))
if verdict ~= FORGOTTEN then return VOID end

if state == 'queued' then give_up_place(model, class, tenant, id) end
redis.call('DEL', request_key(id), events_key(id))
local first_event = 7 + num_values
for i = 7, first_event - 1, 2 do
  redis.call('HSET', request_key(id), ARGV[i], ARGV[i + 1])
end
redis.call('HSET', request_key(id), 'state', 'leased', 'owner', engine, 'fence', fence, 'seq', 0)
redis.call('ZADD', 'hearth:leases', now_ms() + lease_ms, id)
for i = first_event, #ARGV do append_event(id, ARGV[i]) end
if is_ended == '1' then end_request(id) end
return #ARGV - first_event + 1
