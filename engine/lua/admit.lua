-- intake -> fair queue. Returns {outcome, number waiting, ms until there may be room}; a full queue
-- changes nothing. What is submitted again was let in before, and is whatever waits now. The last ARGV, where there are
-- several engines: which of its prefixes are kept as one text, then the names of all by which its homes are found.
local id, entry, work, accepted, prompt_tokens, cost, deadline_at, max_queue, max_tenant, look_ahead,
  is_long, least_tokens, kept_prefixes = unpack(ARGV, 1, 13)
local state, model, tenant, class, weight, is_again = unpack(redis.call('HMGET', request_key(id),
  'state', 'model', 'tenant', 'priority', 'weight', 'is_again'))

local function finish_entry()
  redis.call('XACK', 'hearth:intake', 'intake', entry)
  redis.call('XDEL', 'hearth:intake', entry)
end

if state ~= 'intake' then
  finish_entry()
  return { 'gone', 0, 0 }
end
local num_waiting = redis.call('ZCARD', waiting_key(model))
if not is_again and num_waiting >= tonumber(max_queue) then
  return { 'queue_full', num_waiting, room_ms(model, num_waiting, 0) }
end
local num_own = 0
for _, one in ipairs(CLASSES) do
  num_own = num_own + redis.call('ZCARD', line_key(model, one, tenant))
end
if not is_again and num_own >= tonumber(max_tenant) then
  return { 'tenant_queue_full', num_own, room_ms(model, num_own, num_waiting - num_own) }
end

redis.call('HSET', request_key(id), 'state', 'queued', 'payload', work, 'cost', cost / weight,
  'prompt_tokens', prompt_tokens, 'deadline_at', deadline_at, 'queued_at', now_ms(), 'least_tokens', least_tokens)
if kept_prefixes then
  redis.call('HSET', request_key(id), 'kept_prefixes', kept_prefixes)
  note_homes(id, { unpack(ARGV, 14) })
end
await_deadline(id, deadline_at)
push(model, class, tenant, id) -- first: Redis wakes whom it concerns in this order
if is_long == '1' then redis.call('SADD', long_key(model), id) end
append_event(id, accepted)
redis.call('HSET', pace_key(model), 'look_ahead', look_ahead)
if num_waiting > 0 then
  local place, own_place = estimated_place(model, class, tenant, id)
  tell_place(id, place, forecast(model, now_ms())(place, class, own_place))
end
finish_entry()
return { 'admitted', num_waiting, 0 }
