-- Leases back to the front of the queue. ARGV: why, engine, Finished(cancelled), Failed(poison), ids...
--   expired: any engine's, overdue     died: all of this engine's, at its new start
--   unheld: this engine's but for the ids, which are all it knows of; others' reply was lost on the way
-- Expiry and death count as a crash. Returns the ids.
local why, engine, finished, poisoned = unpack(ARGV, 1, 4)
local is_crash = why ~= 'unheld'
local now = now_ms()
local held, released = {}, {}
for i = 5, #ARGV do held[ARGV[i]] = true end

local function count_crash(id, request)
  local crashes = is_proven(request.tokens, request.tokens_at_crash) and 1 or request.crashes + 1
  redis.call('HSET', request_key(id), 'crashes', crashes, 'tokens_at_crash', request.tokens)
  return crashes
end

local function read(id)
  local fields = { 'state', 'owner', 'fence', 'model', 'tokens', 'tokens_at_crash', 'crashes',
    'is_cancelled', 'prompt_tokens' }
  local request = {}
  for i, value in ipairs(redis.call('HMGET', request_key(id), unpack(fields))) do
    request[fields[i]] = value
  end
  return request
end

local function finish(id, request, event)
  settle_unserved(id)
  append_event(id, with_usage(event, request.prompt_tokens, request.tokens))
  end_request(id)
end

local function release(id, request)
  table.insert(released, id)
  redis.call('ZREM', 'hearth:leases', id)
  redis.call('HSET', request_key(id), 'fence', next_fence(id, now))
  clear_suspect(request.owner, id)
  local crashes = tonumber(request.crashes)
  if is_crash then
    crashes = count_crash(id, request)
    request.tokens_at_crash = request.tokens
  end
  if request.is_cancelled then return finish(id, request, finished) end
  if is_crash and crashes >= 2 then return finish(id, request, poisoned) end
  redis.call('HSET', request_key(id), 'state', 'queued')
  push_back(request.model, id, crashes > 0 and not is_proven(request.tokens, request.tokens_at_crash))
end

local highest = why == 'expired' and now or '+inf'
for _, id in ipairs(redis.call('ZRANGEBYSCORE', 'hearth:leases', '-inf', highest)) do
  local request = read(id)
  if request.state ~= 'leased' then
    redis.call('ZREM', 'hearth:leases', id)
  elseif why == 'expired' or (request.owner == engine and not held[id]) then
    release(id, request)
  end
end
return released
