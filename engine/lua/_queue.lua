-- The fair queue of each model. Every script starts with _request.lua, this file and _routing.lua.
--
--   front     [ given back by an engine that closed ]            oldest first
--   suspects  [ were worked on when an engine died ]             oldest first, one at a time per engine
--   interactive > api > batch, each  ring [ tenant: virtual time ] -> line [ request, oldest first ]
--
-- A tenant's virtual time is the cost in tokens it was served, over the weight of its requests; cached tokens cost little.
-- Lowest goes first. Who returns from idle is lifted to the class's clock: time away earns nothing. What was taken is
-- charged in advance and settled at its end, which may be long after its tenant has become idle.
--
-- An engine says whose long prompts it has in memory, and may have one of those instead of the first in fairness: of the
-- same tenant, or of one that is at most DEFICIT ahead of it. The first is passed by so once, and never with a short prompt.

local CLASSES = { 'interactive', 'api', 'batch' }
local PATIENCE_MS = { api = 15000, batch = 60000 }
local OVERDUE_SHARE = 4 -- while a lower class is overdue, it gets every fourth pick
local MOST_SETTLED = 1e9 -- far above what a request's end adds: then an idle tenant's debt cannot matter any more
local PACE_MEMORY = 0.95 -- what a taking counts for when the next one comes
local DEFICIT = 4096 -- tokens of virtual time
local MAX_LOOKED_AT = 8 -- of tenants, and of each one's requests, where an engine leaves some to others
local MAX_PLACED = 200 -- places further back are not worked out: Redis must not stall

local function front_key(model) return 'hearth:front:' .. model end
local function suspects_key(model) return 'hearth:suspects:' .. model end
local function waiting_key(model) return 'hearth:waiting:' .. model end
local function pace_key(model) return 'hearth:pace:' .. model end
local function long_key(model) return 'hearth:long:' .. model end -- waiting requests that prefixes matter to
local function clock_key(model, class) return 'hearth:clock:' .. class .. ':' .. model end
local function ring_key(model, class) return 'hearth:ring:' .. class .. ':' .. model end
local function idle_key(model, class) return 'hearth:idle:' .. class .. ':' .. model end
local function oldest_key(model, class) return 'hearth:oldest:' .. class .. ':' .. model end -- the class's requests by order
local function line_key(model, class, tenant)
  return 'hearth:line:' .. class .. ':' .. model .. '\n' .. tenant
end

local function wake_engines(model)
  redis.call('XADD', 'hearth:work', 'MAXLEN', 1, '*', 'model', model)
end

local function note_waiting(model, id, order)
  redis.call('ZADD', waiting_key(model), order, id)
  redis.call('SADD', 'hearth:queues', model)
  wake_engines(model)
end

local function await_deadline(id, deadline_at)
  if tonumber(deadline_at or 0) > 0 then redis.call('ZADD', 'hearth:deadlines', deadline_at, id) end
end

local function lift_into_ring(model, class, tenant)
  local clock = tonumber(redis.call('GET', clock_key(model, class)) or 0)
  local idle = tonumber(redis.call('ZSCORE', idle_key(model, class), tenant) or 0)
  redis.call('ZADD', ring_key(model, class), math.max(clock, idle), tenant)
  redis.call('ZREM', idle_key(model, class), tenant)
  redis.call('ZREMRANGEBYSCORE', idle_key(model, class), '-inf', clock - MOST_SETTLED)
end

local function push(model, class, tenant, id)
  local order = redis.call('INCR', 'hearth:order')
  redis.call('HSET', request_key(id), 'order', order)
  redis.call('ZADD', line_key(model, class, tenant), order, id)
  redis.call('ZADD', oldest_key(model, class), order, id)
  if not redis.call('ZSCORE', ring_key(model, class), tenant) then
    lift_into_ring(model, class, tenant)
  end
  note_waiting(model, id, order)
end

-- Back to the front, in the order of first arrival. The deadline may have passed while an engine had it.
local function push_back(model, id, is_suspect)
  local order, deadline_at = unpack(redis.call('HMGET', request_key(id), 'order', 'deadline_at'))
  local key = is_suspect and suspects_key(model) or front_key(model)
  redis.call('ZADD', key, order or 0, id)
  await_deadline(id, deadline_at)
  note_waiting(model, id, order or 0)
end

local function leave_queue(model, class, tenant, id)
  redis.call('ZREM', waiting_key(model), id)
  redis.call('ZREM', front_key(model), id)
  redis.call('ZREM', suspects_key(model), id)
  redis.call('ZREM', oldest_key(model, class), id)
  redis.call('SREM', long_key(model), id)
  local line = line_key(model, class, tenant)
  if redis.call('ZREM', line, id) == 1 and redis.call('EXISTS', line) == 0 then
    local virtual_time = redis.call('ZSCORE', ring_key(model, class), tenant)
    redis.call('ZREM', ring_key(model, class), tenant)
    redis.call('ZADD', idle_key(model, class), virtual_time, tenant)
  end
end

local function charge(model, class, tenant, cost)
  local in_ring = redis.call('ZSCORE', ring_key(model, class), tenant)
  local key = in_ring and ring_key(model, class) or idle_key(model, class)
  redis.call('ZINCRBY', key, cost, tenant)
end

local function first_of(model, class)
  local ring = redis.call('ZRANGE', ring_key(model, class), 0, 0, 'WITHSCORES')
  if #ring == 0 then return nil end
  local id = redis.call('ZRANGE', line_key(model, class, ring[1]), 0, 0)[1]
  return { id = id, class = class, tenant = ring[1], clock = ring[2] }
end

-- For how long the class's oldest request has waited beyond its patience: not the one whose turn it is in the class,
-- for that may have come just now, time and again.
local function overdue_ms(model, class, now)
  local oldest = PATIENCE_MS[class] and redis.call('ZRANGE', oldest_key(model, class), 0, 0)[1]
  if not oldest then return 0 end
  local queued_at = tonumber(redis.call('HGET', request_key(oldest), 'queued_at') or now)
  return now - queued_at - PATIENCE_MS[class]
end

-- The next in fairness: the highest class, but every fourth time one of the longest overdue class. `find_first`: of a class.
local function next_fair(model, now, find_first)
  local highest, overdue, longest = nil, nil, 0
  for _, class in ipairs(CLASSES) do
    local first = find_first(model, class)
    if first then
      highest = highest or first
      local ms = overdue_ms(model, class, now)
      if ms > longest then overdue, longest = first, ms end
    end
  end
  if overdue and redis.call('INCR', 'hearth:picks:' .. model) % OVERDUE_SHARE == 0 then
    return overdue
  end
  return highest
end

local function take_out(model, one)
  local cost = redis.call('HGET', request_key(one.id), 'cost') or 0
  charge(model, one.class, one.tenant, cost)
  leave_queue(model, one.class, one.tenant, one.id)
  return one.id
end

-- Whether `id` waits where it may go before `first`; with its tenant.
local function may_go_before(model, first, id)
  local class, tenant = unpack(redis.call('HMGET', request_key(id), 'priority', 'tenant'))
  if class ~= first.class or not redis.call('ZSCORE', line_key(model, class, tenant), id) then return false end
  return redis.call('ZSCORE', ring_key(model, class), tenant) - first.clock <= DEFICIT, tenant
end

-- The one of `preferred` that may go before `first`, or `first`.
local function prefer(model, first, preferred, may_take)
  local is_long = redis.call('SISMEMBER', long_key(model), first.id) == 1
  if not is_long or redis.call('HGET', request_key(first.id), 'is_passed') then return first end
  for _, id in ipairs(preferred) do
    local may_go, tenant = may_go_before(model, first, id)
    if may_go and may_take(id) then
      redis.call('HSET', request_key(first.id), 'is_passed', 1) -- or it is the first itself, which leaves
      return { id = id, class = first.class, tenant = tenant }
    end
  end
  return first
end

local function take_fair(model, now, preferred, find_first, may_take)
  local first = next_fair(model, now, find_first)
  if not first then return nil end
  redis.call('SET', clock_key(model, first.class), first.clock)
  return take_out(model, prefer(model, first, preferred, may_take))
end

-- The next of `lowest` class or a higher one whose tenant is not among so many `absent` ones.
local function take_guest(model, lowest, absent, num_absent, may_take)
  for _, class in ipairs(CLASSES) do
    for _, tenant in ipairs(redis.call('ZRANGE', ring_key(model, class), 0, num_absent)) do
      if not absent[tenant] then
        local id = redis.call('ZRANGE', line_key(model, class, tenant), 0, 0)[1]
        return may_take(id) and take_out(model, { id = id, class = class, tenant = tenant }) or nil
      end
    end
    if class == lowest then return nil end
  end
end

local function take_oldest(model, key, may_take)
  for _, id in ipairs(redis.call('ZRANGE', key, 0, MAX_LOOKED_AT - 1)) do
    if may_take(id) then
      redis.call('ZREM', key, id)
      redis.call('ZREM', waiting_key(model), id)
      return id
    end
  end
end

-- The lines of one class as they would be served, appended to `placed`. Changes nothing.
local function place_class(model, class, placed)
  local ring = redis.call('ZRANGE', ring_key(model, class), 0, MAX_PLACED - 1, 'WITHSCORES')
  local tenants = {}
  for i = 1, #ring, 2 do
    local line = redis.call('ZRANGE', line_key(model, class, ring[i]), 0, MAX_PLACED - 1)
    table.insert(tenants, { at = 1, line = line, virtual_time = tonumber(ring[i + 1]) })
  end
  local own_place = 0
  while #placed < MAX_PLACED do
    local lowest = nil
    for _, tenant in ipairs(tenants) do
      local is_waiting = tenant.at <= #tenant.line
      if is_waiting and (not lowest or tenant.virtual_time < lowest.virtual_time) then
        lowest = tenant
      end
    end
    if not lowest then return end
    local id = lowest.line[lowest.at]
    local cost = tonumber(redis.call('HGET', request_key(id), 'cost') or 0)
    lowest.at, lowest.virtual_time = lowest.at + 1, lowest.virtual_time + cost
    own_place = own_place + 1
    table.insert(placed, { id = id, class = class, own_place = own_place })
  end
end

-- The waiting requests of a model in the order of service, as far as it can be foreseen: {id, class, place in it};
-- who was given back is of no class any more.
local function places(model)
  local placed = {}
  for _, key in ipairs({ front_key(model), suspects_key(model) }) do
    for _, id in ipairs(redis.call('ZRANGE', key, 0, MAX_PLACED - 1)) do
      table.insert(placed, { id = id })
    end
  end
  for _, class in ipairs(CLASSES) do place_class(model, class, placed) end
  return placed
end

-- About the place of a request that has just joined, and that in its class, as if all cost the same.
local function estimated_place(model, class, tenant, id)
  local place = redis.call('ZCARD', front_key(model)) + redis.call('ZCARD', suspects_key(model))
  local own_place = redis.call('ZRANK', line_key(model, class, tenant), id) + 1
  for _, one in ipairs(CLASSES) do
    local num_before = 0
    for _, other in ipairs(redis.call('ZRANGE', ring_key(model, one), 0, -1)) do
      local length = redis.call('ZCARD', line_key(model, one, other))
      num_before = num_before + (one == class and math.min(length, own_place) or length)
    end
    place = place + num_before
    if one == class then return place, num_before end
  end
end

-- The time between two takings while others wait, in the mean over the last twenty or so. Takings
-- come in bunches, for rows that began together end together: so time over number, not a mean of gaps.
local function note_pace(model, num_taken, now)
  local is_busy = redis.call('EXISTS', waiting_key(model)) == 1
  local last, ms, num = unpack(redis.call('HMGET', pace_key(model), 'last', 'ms', 'num'))
  last = tonumber(last or 0)
  local is_known = last > 0 and last <= now -- not when the clock was set back meanwhile
  if num_taken > 0 and is_known then
    local kept = PACE_MEMORY ^ num_taken
    ms = kept * (ms or 0) + now - last
    num = kept * (num or 0) + num_taken
    redis.call('HSET', pace_key(model), 'ms', ms, 'num', num, 'mean', ms / num)
  end
  if num_taken > 0 or not is_busy then
    redis.call('HSET', pace_key(model), 'last', is_busy and now or 0)
  end
end

-- Somebody waits, and not only for an engine to look.
local function begin_pace(model, now)
  if tonumber(redis.call('HGET', pace_key(model), 'last') or 0) == 0 then
    redis.call('HSET', pace_key(model), 'last', now)
  end
end

-- What the request really took of its tenant's share, of which its cost was charged when it was taken. `computed`: tokens.
local function settle(id, computed)
  local model, class, tenant, weight, cost = unpack(redis.call('HMGET', request_key(id),
    'model', 'priority', 'tenant', 'weight', 'cost'))
  charge(model, class, tenant, computed / weight - cost)
end

-- It ends in no engine's hands: all that is known to have been computed for it is what was delivered, and its prompt.
local function settle_unserved(id)
  local prompt_tokens, tokens = unpack(redis.call('HMGET', request_key(id), 'prompt_tokens', 'tokens'))
  tokens = tonumber(tokens or 0)
  settle(id, tokens > 0 and prompt_tokens + tokens or 0)
end

-- Held by an engine after all: nothing is taken.
local function give_up_place(model, class, tenant, id)
  leave_queue(model, class, tenant, id)
  note_pace(model, 0, now_ms())
end

-- Cancelled, or too late. What was taken and given back was charged.
local function leave_unserved(id)
  local model, class, tenant, attempt = unpack(redis.call('HMGET', request_key(id),
    'model', 'priority', 'tenant', 'attempt'))
  give_up_place(model, class, tenant, id)
  if tonumber(attempt or 0) > 0 then settle_unserved(id) end
end

-- How long until coming again is worth it: a tenth of who waits before must be gone, one at least.
-- Zero while no pace is known.
local function room_ms(model, num_before, num_others)
  local mean = tonumber(redis.call('HGET', pace_key(model), 'mean') or 0)
  return math.floor(mean * math.max(1, num_before / 10) * (1 + num_others / math.max(1, num_before)))
end

local function num_living_engines()
  local num = 0
  for _, name in ipairs(redis.call('SMEMBERS', 'hearth:engines')) do
    num = num + redis.call('EXISTS', 'hearth:engine:' .. name)
  end
  return math.max(1, num)
end

-- Foretells in ms when a request at some place is taken; nil while no pace is known. Engines take requests before they
-- have rows for them: those go first as well. While a higher class has somebody waiting more of it may come, and
-- nothing is sure but the share of those who are overdue.
local function forecast(model, now)
  local mean, look_ahead = unpack(redis.call('HMGET', pace_key(model), 'mean', 'look_ahead'))
  if not mean then return function() return nil end end
  local num_taken = num_living_engines() * (look_ahead or 0)
  local patience_left, is_behind = {}, false
  for _, class in ipairs(CLASSES) do
    if is_behind then patience_left[class] = math.max(0, -overdue_ms(model, class, now)) end
    is_behind = is_behind or redis.call('EXISTS', ring_key(model, class)) == 1
  end
  return function(position, class, own_place)
    local left = class and patience_left[class]
    if not left then return (position + num_taken) * mean end
    return left + (OVERDUE_SHARE * own_place + num_taken) * mean
  end
end

-- `wait_ms`: nil where it cannot be foretold.
local function tell_place(id, position, wait_ms)
  local event = { type = 'Queued', position = position }
  if wait_ms then event.wait_seconds = math.floor(wait_ms / 100) / 10 end
  redis.call('HSET', request_key(id), 'place', position, 'wait_ms', wait_ms or 0)
  append_event(id, cjson.encode(event))
end
