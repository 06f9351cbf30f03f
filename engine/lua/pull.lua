-- fair queue -> engine. ARGV: engine, lease_ms, how many requests it has in its hands, the event of a passed deadline,
--   how many models and preferred requests, (model, how many)..., preferred ids..., then of guests, one each:
--   (model, lowest class, n, n tenants who may not)...
-- Returns {per request {hash as a flat list, its events}, the models of which long prompts still wait, in how many ms
--   it may take what it has left to other engines (0: nothing)}.
local engine, lease_ms, num_held, deadline_failed, num_models, num_preferred = unpack(ARGV, 1, 6)
local now = now_ms()
local pulled, with_long, views = {}, {}, {}
local look_again_ms = math.huge
local after_models = 6 + 2 * num_models
local preferred = { unpack(ARGV, after_models + 1, after_models + num_preferred) }

local function own_filter(view)
  return function(id) return not is_for_others(view, id) end
end

local function take(model, view)
  local is_own = own_filter(view)
  local id = take_oldest(model, front_key(model), is_own)
  if id then return id end
  if redis.call('EXISTS', suspect_key(engine)) == 0 then
    id = take_oldest(model, suspects_key(model), is_own)
    if id then
      redis.call('SET', suspect_key(engine), id)
      return id
    end
  end
  if view.is_alone then return take_fair(model, now, preferred, first_of, is_own) end
  local function find_first(_, class) return first_for(view, class) end
  return take_fair(model, now, preferred, find_first, function(one) return judge(view, one) == OWN end)
end

local function give_up(id)
  local prompt, tokens = unpack(redis.call('HMGET', request_key(id), 'prompt_tokens', 'tokens'))
  append_event(id, with_usage(deadline_failed, prompt, tokens))
  clear_suspect(engine, id)
  settle_unserved(id)
  end_request(id)
end

local function lease(id)
  redis.call('HSET', request_key(id), 'state', 'leased', 'owner', engine,
    'fence', next_fence(id, now))
  redis.call('HINCRBY', request_key(id), 'attempt', 1)
  redis.call('HDEL', request_key(id), 'place')
  redis.call('ZADD', 'hearth:leases', now + lease_ms, id)
  move_in(id, engine)
  local history = {}
  for _, entry in ipairs(redis.call('XRANGE', events_key(id), '-', '+')) do
    table.insert(history, entry[2][2])
  end
  table.insert(pulled, { id, redis.call('HGETALL', request_key(id)), history })
end

local function pull(model, wanted, view, take_one)
  local num_taken = 0
  while num_taken < wanted do
    local id = take_one()
    if not id then break end
    if is_too_late(id, now) then
      give_up(id)
    else
      lease(id)
      note_taken(view)
      num_taken = num_taken + 1
    end
  end
  note_pace(model, num_taken, now)
end

local function view_of(model, wanted)
  local look_ahead = redis.call('HGET', pace_key(model), 'look_ahead') or 0
  return look_around(model, engine, now, num_held + #pulled, wanted - look_ahead)
end

for i = 7, after_models, 2 do
  local model, wanted = ARGV[i], tonumber(ARGV[i + 1])
  local view = view_of(model, wanted)
  pull(model, wanted, view, function() return take(model, view) end)
  if redis.call('EXISTS', long_key(model)) == 1 then table.insert(with_long, model) end
  look_again_ms = math.min(look_again_ms, view.look_again_ms)
  table.insert(views, view)
end

local i = after_models + num_preferred + 1
while i <= #ARGV do
  local model, lowest, num_absent, absent = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), {}
  for j = i + 3, i + 2 + num_absent do absent[ARGV[j]] = true end
  local view = view_of(model, 0)
  pull(model, 1, view, function() return take_guest(model, lowest, absent, num_absent, own_filter(view)) end)
  i = i + 3 + num_absent
end

for _, view in ipairs(views) do
  view.num_requests = num_held + #pulled
  tell_room(view)
end
return { pulled, with_long, look_again_ms == math.huge and 0 or look_again_ms }
