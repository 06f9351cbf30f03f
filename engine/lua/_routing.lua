-- Which of several engines takes what waits. Nobody hands out: each asks for itself, and leaves to the others
--   what it cannot serve, while one of them can                           (`reach`, told with each heartbeat)
--   what one of them has read most of before, for a while                 (`homes`, noted when a request is taken)
--   what one of them has rows for that has fewer requests in its hands    (`room`, told with each pull)

local HOME_SECONDS = 3600
local PATIENCE_MS_PER_TOKEN, MOST_HOME_MS = 0.25, 2000 -- reading it anew would take longer, mostly
local HOME_REQUESTS = 4 -- so many more than another an engine may have that has read a prompt before
local REACH_MS = 60000 -- an engine that is started again is back by then
local ROOM_MS = 1000 -- engines ask twice a second
local LOOK_AGAIN_MS = 100
local MOST_PASSED = 8 -- times, of one that is awaited for longer than that is worth

local function reach_key(model) return 'hearth:reach:' .. model end -- engine: "longest row, 0, until"
local function room_key(model) return 'hearth:room:' .. model end -- engine: "requests, rows, until"
local function home_key(prefix) return 'hearth:home:' .. prefix end -- names of engines

local function has_word(words, word)
  return words and string.find(' ' .. words .. ' ', ' ' .. word .. ' ', 1, true) ~= nil
end

-- What each engine has told that still holds: two numbers by name.
local function told(key, now)
  local by_name, flat = {}, redis.call('HGETALL', key)
  for i = 1, #flat, 2 do
    local first, second, until_ms = string.match(flat[i + 1], '^(%d+) (%d+) (%d+)$')
    if until_ms and tonumber(until_ms) > now then by_name[flat[i]] = { tonumber(first), tonumber(second) } end
  end
  return by_name
end

local function tell(key, engine, first, second, until_ms)
  redis.call('HSET', key, engine, string.format('%.0f %.0f %.0f', first, second, until_ms))
end

-- Who has read most of a prompt before, and how many tokens. `prefixes`: their names, longest first.
local function find_homes(prefixes)
  for first = 1, #prefixes, 16 do
    local keys = {}
    for i = first, math.min(#prefixes, first + 15) do table.insert(keys, home_key(prefixes[i])) end
    for i, homes in ipairs(redis.call('MGET', unpack(keys))) do
      if homes then return homes, tonumber(string.match(prefixes[first + i - 1], '^%d+')) end
    end
  end
end

local function note_homes(id, prefixes)
  local homes, num_tokens = find_homes(prefixes)
  if not homes then return end
  local patience_ms = math.min(MOST_HOME_MS, num_tokens * PATIENCE_MS_PER_TOKEN)
  redis.call('HSET', request_key(id), 'homes', homes, 'home_ms', patience_ms)
end

-- The engine reads this prompt now.
local function move_in(id, engine)
  local kept, keys = redis.call('HGET', request_key(id), 'kept_prefixes'), {}
  if not kept then return end
  for prefix in string.gmatch(kept, '%S+') do table.insert(keys, home_key(prefix)) end
  for i, homes in ipairs(redis.call('MGET', unpack(keys))) do
    if not has_word(homes, engine) then
      redis.call('SET', keys[i], homes and homes .. ' ' .. engine or engine, 'EX', HOME_SECONDS)
    end
  end
end

-- One engine's view of one model while it pulls. `num_requests`: in its hands; `num_rows`: free.
local function look_around(model, engine, now, num_requests, num_rows)
  return { model = model, engine = engine, now = now, num_requests = num_requests, num_rows = num_rows,
    is_alone = redis.call('HLEN', reach_key(model)) < 2, look_again_ms = math.huge }
end

-- What the others say, read when there is something to be taken.
local function listen(view)
  if view.reach then return end
  local reach, rooms = told(reach_key(view.model), view.now), told(room_key(view.model), view.now)
  view.longest = reach[view.engine] and reach[view.engine][1] or math.huge
  reach[view.engine], rooms[view.engine] = nil, nil
  view.reach, view.rooms = reach, rooms
end

local function note_taken(view)
  view.num_requests, view.num_rows = view.num_requests + 1, view.num_rows - 1
end

-- Whether another engine can serve a row of so many tokens.
local function is_in_reach(reach, num_tokens, declined)
  for name, other in pairs(reach) do
    if other[1] >= num_tokens and not has_word(declined, name) then return true end
  end
  return false
end

local function is_beyond(view, least, tokens, declined)
  listen(view)
  local num_tokens = (least or 1) + tokens
  if num_tokens <= view.longest and not has_word(declined, view.engine) then return false end
  return is_in_reach(view.reach, num_tokens, declined)
end

local function is_for_others(view, id)
  if view.is_alone then return false end
  return is_beyond(view, unpack(redis.call('HMGET', request_key(id), 'least_tokens', 'tokens', 'declined')))
end

-- How many requests others have rows for until they have as many in their hands.
local function num_better_placed(view, headstart)
  local num = 0
  for _, other in pairs(view.rooms) do
    num = num + math.max(0, math.min(other[2], view.num_requests - headstart - other[1]))
  end
  return num
end

-- Whether one of its homes has rows, and not many more requests, or may soon have some.
local function is_awaited_at_home(view, homes)
  for name in string.gmatch(homes, '%S+') do
    local room = view.rooms[name]
    if room and room[1] <= view.num_requests + HOME_REQUESTS then return true end
    if not room and redis.call('EXISTS', 'hearth:engine:' .. name) == 1 then return true end
  end
  return false
end

-- For how many ms more it is worth waiting for its home; since an engine first had a row for it.
local function patience_left(view, id, home_ms, until_ms)
  if until_ms then return until_ms - view.now end
  redis.call('HSET', request_key(id), 'home_until', string.format('%.0f', view.now + home_ms))
  return tonumber(home_ms)
end

-- What a request in the fair queue is to this engine: OWN, to be taken; AWAITED by another that has read most of it, for so
-- many ms more and then as long as there is something else to take; LEFT to others.
local OWN, AWAITED, LEFT = 1, 2, 3
local function judge(view, id)
  if view.is_alone then return OWN end
  local least, tokens, declined, homes, home_ms, home_until = unpack(redis.call('HMGET', request_key(id),
    'least_tokens', 'tokens', 'declined', 'homes', 'home_ms', 'home_until'))
  if is_beyond(view, least, tokens, declined) then return LEFT end
  local is_home = has_word(homes, view.engine)
  local num_better = num_better_placed(view, is_home and view.num_rows > 0 and HOME_REQUESTS or 0)
  if num_better > 0 and num_better >= redis.call('ZCARD', waiting_key(view.model)) then
    view.look_again_ms = math.min(view.look_again_ms, LOOK_AGAIN_MS)
    return LEFT
  end
  if homes and not is_home and is_awaited_at_home(view, homes) then
    return AWAITED, patience_left(view, id, home_ms, home_until)
  end
  return OWN
end

local function may_be_passed(one)
  return one.left_ms > 0 or redis.call('HINCRBY', request_key(one.id), 'num_passed', 1) <= MOST_PASSED
end

-- How far ahead of its tenant others may be who go first: of one that is awaited still, by what it would cost itself too.
local function most_ahead(one)
  return DEFICIT + (one.left_ms > 0 and redis.call('HGET', request_key(one.id), 'cost') or 0)
end

-- The first in fairness of a class that is this engine's own, as long as nobody gets too far ahead; else the first that has
-- been awaited long enough. Nobody is passed by for ever.
local function first_for(view, class)
  local ring = redis.call('ZRANGE', ring_key(view.model, class), 0, MAX_LOOKED_AT - 1, 'WITHSCORES')
  local awaited = nil
  for i = 1, #ring, 2 do
    if awaited and ring[i + 1] - ring[2] > most_ahead(awaited) then return awaited end
    for _, id in ipairs(redis.call('ZRANGE', line_key(view.model, class, ring[i]), 0, MAX_LOOKED_AT - 1)) do
      local verdict, left_ms = judge(view, id)
      local one = { id = id, class = class, tenant = ring[i], clock = ring[2], left_ms = left_ms }
      if verdict == OWN then return (not awaited or may_be_passed(awaited)) and one or awaited end
      if verdict == AWAITED then awaited = awaited or one end
    end
  end
  if not awaited or awaited.left_ms <= 0 then return awaited end
  view.look_again_ms = math.min(view.look_again_ms, awaited.left_ms)
end

-- What the others may count on for a while.
local function tell_room(view)
  if view.is_alone then return end
  if view.num_rows > 0 then
    tell(room_key(view.model), view.engine, view.num_requests, view.num_rows, view.now + ROOM_MS)
  else
    redis.call('HDEL', room_key(view.model), view.engine)
  end
end
