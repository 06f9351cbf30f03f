-- intake's other answer.
local id, entry, refused = unpack(ARGV)
if redis.call('HGET', request_key(id), 'state') == 'intake' then
  append_event(id, refused)
  end_request(id)
end
redis.call('XACK', 'hearth:intake', 'intake', entry)
redis.call('XDEL', 'hearth:intake', entry)
