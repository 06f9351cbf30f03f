-- intake ends a request itself: refused, or counted.
local id, entry, event = unpack(ARGV)
if redis.call('HGET', request_key(id), 'state') == 'intake' then
  append_event(id, event)
  end_request(id)
end
redis.call('XACK', 'hearth:intake', 'intake', entry)
redis.call('XDEL', 'hearth:intake', entry)
