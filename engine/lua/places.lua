-- Tells waiting requests their place when it changed enough to matter. Ends those past their deadline, and
-- those whose model is not among the published ones any more: no engine would ever take them.
-- ARGV: the event of a passed deadline, that of a model that is gone, milliseconds until anyone may run this again.
local deadline_failed, model_failed, quiet_ms = unpack(ARGV)
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

local function fail(model, id, event)
  local tenant, class, prompt_tokens, tokens = unpack(redis.call('HMGET', request_key(id),
    'tenant', 'priority', 'prompt_tokens', 'tokens'))
  give_up_place(model, class, tenant, id)
  append_event(id, with_usage(event, prompt_tokens, tokens))
  end_request(id)
end

local function has_waited(id)
  local queued_at = tonumber(redis.call('HGET', request_key(id), 'queued_at') or now)
  return now - queued_at > 500
end

-- Near the front every place counts, further back a tenth of it.
local function is_news(told, position)
  if not told then return true end
  return math.abs(told - position) >= math.max(1, position / 10)
end

local published = published_models()
for _, model in ipairs(redis.call('SMEMBERS', 'hearth:queues')) do
  local is_gone = published and not published[model]
  if redis.call('EXISTS', waiting_key(model)) == 0 then
    redis.call('SREM', 'hearth:queues', model)
  end
  local position = 0
  for _, id in ipairs(places(model)) do
    if is_gone then
      fail(model, id, model_failed)
    elseif is_too_late(id, now) then
      fail(model, id, deadline_failed)
    else
      position = position + 1
      if position == 1 and has_waited(id) then begin_pace(model, now) end
      local told = tonumber(redis.call('HGET', request_key(id), 'place'))
      if is_news(told, position) then tell_place(model, id, position) end
    end
  end
end
return 1
