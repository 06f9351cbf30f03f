-- web -> intake. Again with the same id: nothing happens. Returns 1 when it was new.
local id, model, tenant, priority, weight, message, refused, max_backlog = unpack(ARGV)
if redis.call('EXISTS', request_key(id)) == 1 then return 0 end

redis.call('HSET', request_key(id), 'state', 'intake', 'model', model, 'tenant', tenant,
  'priority', priority, 'weight', weight, 'born', now_ms(), 'seq', 0, 'tokens', 0, 'tokens_at_crash', 0, 'crashes', 0, 'attempt', 0)
local cancelled = redis.call('GET', cancelled_key(id))
if cancelled then
  append_event(id, cancelled)
  end_request(id)
elseif redis.call('XLEN', 'hearth:intake') >= tonumber(max_backlog) then
  append_event(id, refused)
  end_request(id)
else
  redis.call('XADD', 'hearth:intake', '*', 'id', id, 'm', message)
end
return 1
