-- What waits, in order of service, as far as it is placed: {id, model, tenant, place, milliseconds waited} each.
local now = now_ms()
local waiting = {}
for _, model in ipairs(redis.call('SMEMBERS', 'hearth:queues')) do
  for position, one in ipairs(places(model)) do
    local id = one.id
    local tenant, queued_at = unpack(redis.call('HMGET', request_key(id), 'tenant', 'queued_at'))
    table.insert(waiting, { id, model, tenant, position, now - (queued_at or now) })
  end
end
return waiting
