-- Leases back to the front of the queue. ARGV: why, engine, Finished(cancelled), Failed(poison), then for
--   expired: nothing. Any engine's, overdue
--   died: own life, the life that ended, whether it was loading a model, the ids it was at work on...
--     All of this engine's, at its new start
--   unheld: ids... This engine's but for these, which are all it knows of; others' reply was lost on the way
-- Expiry and death count as a crash, but for what waited when a life ended that has left word of its work. Returns the ids.
local why, engine, finished, poisoned = unpack(ARGV, 1, 4)
local now = now_ms()
local named, released = {}, {}
for i = why == 'died' and 8 or 5, #ARGV do named[ARGV[i]] = true end

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

local function release(id, request, is_crash)
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

-- The leases that go back, and what is known of them.
local function released_leases()
  local leases = {}
  local highest = why == 'expired' and now or '+inf'
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', 'hearth:leases', '-inf', highest)) do
    local request = read(id)
    if request.state ~= 'leased' then
      redis.call('ZREM', 'hearth:leases', id)
    elseif why == 'expired' or (request.owner == engine and not (why == 'unheld' and named[id])) then
      table.insert(leases, { id = id, request = request })
    end
  end
  return leases
end

-- Whether the word that was left is of the life that took the leases, and explains its end: where it was at work on none
-- of them, nor on a model, any may have ended it.
local function knows_work(leases)
  if why ~= 'died' then return false end
  local life, former, was_loading = unpack(ARGV, 5, 7)
  local is_its_word = redis.call('GET', life_key(engine)) == former
  redis.call('SET', life_key(engine), life)
  if not is_its_word or was_loading == '1' then return is_its_word end
  for _, lease in ipairs(leases) do
    if named[lease.id] then return true end
  end
  return false
end

-- Of engines that were not seen for so long that Redis has forgotten their last lives.
local function forget_names()
  for _, name in ipairs(redis.call('SMEMBERS', 'hearth:engines')) do
    if redis.call('EXISTS', 'hearth:engine:' .. name, life_key(name)) == 0 then
      redis.call('SREM', 'hearth:engines', name)
    end
  end
end

local leases = released_leases()
local counts_all = why ~= 'unheld' and not knows_work(leases)
for _, lease in ipairs(leases) do
  release(lease.id, lease.request, counts_all or named[lease.id])
end
if why == 'died' then forget_names() end
return released
