-- Ends what waits; tells the engines about what runs; what is yet to come will end at once. Returns
-- the state it was in.
local id, finished, command = unpack(ARGV)
local state, prompt_tokens, tokens = unpack(redis.call('HMGET', request_key(id),
  'state', 'prompt_tokens', 'tokens'))
if state == 'queued' then leave_unserved(id) end
if state == 'queued' or state == 'intake' then
  append_event(id, with_usage(finished, prompt_tokens, tokens))
  end_request(id)
elseif state == 'leased' then
  redis.call('HSET', request_key(id), 'is_cancelled', 1)
  redis.call('XADD', 'hearth:control', 'MAXLEN', '~', 1000, '*', 'm', command)
elseif not state then
  redis.call('SET', cancelled_key(id), finished, 'EX', AWAIT_SECONDS)
end
return state or 'unknown'
