-- Ends waiting requests past their deadline, and those whose model is not among the published ones any more: no engine
-- would ever take them. Tells the others their place when it changed enough to matter.
-- ARGV: the event of a passed deadline, that of a model that is gone, milliseconds until anyone may run this again.
local deadline_failed, model_failed, quiet_ms = unpack(ARGV)
local NEWS_MS = 2000 -- a change of the wait below this is none
if not redis.call('SET', 'hearth:places', 1, 'NX', 'PX', quiet_ms) then return 0 end
local now = now_ms()

-- Nil while none are published: Redis has lost them, and is soon told again.
local function published_models()
  local configure = redis.call('GET', 'hearth:models')
  if not configure then return nil end
  local published = {}
  for _, spec in ipairs(cjson.decode(configure).models) do published[spec.name] = true end
  return published
end

local function fail(id, event)
  leave_unserved(id)
  append_event(id, with_usage(event, unpack(redis.call('HMGET', request_key(id), 'prompt_tokens', 'tokens'))))
  end_request(id)
end

-- Who runs meanwhile is its engine's to end.
local function fail_the_late()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', 'hearth:deadlines', '-inf', now, 'LIMIT', 0, MAX_PLACED)) do
    redis.call('ZREM', 'hearth:deadlines', id)
    if redis.call('HGET', request_key(id), 'state') == 'queued' then fail(id, deadline_failed) end
  end
end

local function has_waited(id)
  local queued_at = tonumber(redis.call('HGET', request_key(id), 'queued_at') or now)
  return now - queued_at > 500
end

-- Near the front every place counts, further back a tenth of it; of the wait, what makes it another one.
local function is_news(id, position, wait_ms)
  local told, told_ms = unpack(redis.call('HMGET', request_key(id), 'place', 'wait_ms'))
  if not told or math.abs(told - position) >= math.max(1, position / 10) then return true end
  local shorter, longer = math.min(told_ms or 0, wait_ms or 0), math.max(told_ms or 0, wait_ms or 0)
  return longer > 2 * shorter + NEWS_MS
end

fail_the_late()
local published = published_models()
for _, model in ipairs(redis.call('SMEMBERS', 'hearth:queues')) do
  local is_gone = published and not published[model]
  if redis.call('EXISTS', waiting_key(model)) == 0 then
    redis.call('SREM', 'hearth:queues', model)
  end
  local position, foretell = 0, forecast(model, now)
  for _, one in ipairs(places(model)) do
    local id = one.id
    if is_gone then
      fail(id, model_failed)
    else
      position = position + 1
      if position == 1 and has_waited(id) then begin_pace(model, now) end
      local wait_ms = foretell(position, one.class, one.own_place)
      if is_news(id, position, wait_ms) then tell_place(id, position, wait_ms) end
    end
  end
end
return 1
