-- web -> intake. With an id that is known: nothing happens. Returns 1 when it was new. `is_again` '1':
-- it had been let in and was lost, so that no queue is too full for it.
local id, model, tenant, priority, weight, message, refused, max_backlog, is_again = unpack(ARGV)
if redis.call('EXISTS', request_key(id)) == 1 then return 0 end

redis.call('HSET', request_key(id), 'state', 'intake', 'model', model, 'tenant', tenant,
  'priority', priority, 'weight', weight, 'born', now_ms(), 'seq', 0, 'tokens', 0, 'tokens_at_crash', 0, 'crashes', 0, 'attempt', 0)
if is_again == '1' then redis.call('HSET', request_key(id), 'is_again', 1) end
local cancelled = redis.call('GET', cancelled_key(id))
if cancelled then
  append_event(id, cancelled)
  end_request(id)
elseif is_again ~= '1' and redis.call('XLEN', 'hearth:intake') >= tonumber(max_backlog) then
  append_event(id, refused)
  end_request(id)
else
  redis.call('XADD', 'hearth:intake', '*', 'id', id, 'm', message)
end
return 1
