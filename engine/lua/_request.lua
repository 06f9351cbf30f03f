-- One request: its hash, its event stream, its end. Every script starts with this file and _queue.lua.
-- Keys are built here from ids: one Redis (or one shard) holds them all.

local KEEP_ENDED_SECONDS = 600
local AWAIT_SECONDS = 60 -- a request whose cancel came first
local MAX_TERMINAL_ENTRIES = 100000 -- far above what an absent ledger leaves unread in a day
local HELD, FORGOTTEN, VOID = 0, -1, -2

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function request_key(id) return 'hearth:request:' .. id end
local function events_key(id) return 'hearth:events:' .. id end
local function cancelled_key(id) return 'hearth:cancelled:' .. id end
local function suspect_key(engine) return 'hearth:suspect:' .. engine end
local function life_key(engine) return 'hearth:life:' .. engine end -- which one took its leases

-- seq n has the entry id n+1-born, and the hash keeps the next seq. Lost and submitted again, a request is
-- born anew: whoever read of it before must not take the one's events for the other's.
local function append_event(id, event)
  local next_seq = redis.call('HINCRBY', request_key(id), 'seq', 1)
  local born = redis.call('HGET', request_key(id), 'born') or 0
  redis.call('XADD', events_key(id), next_seq .. '-' .. born, 'e', event)
end

local function end_request(id)
  redis.call('HSET', request_key(id), 'state', 'ended')
  redis.call('HDEL', request_key(id), 'payload')
  redis.call('EXPIRE', request_key(id), KEEP_ENDED_SECONDS)
  redis.call('EXPIRE', events_key(id), KEEP_ENDED_SECONDS)
  redis.call('ZREM', 'hearth:leases', id)
  redis.call('ZREM', 'hearth:deadlines', id)
  redis.call('XADD', 'hearth:terminal', 'MAXLEN', '~', MAX_TERMINAL_ENTRIES, '*', 'id', id)
end

-- Whether the engine that took the request with `fence` still has it. FORGOTTEN: Redis lost the
-- lease and nobody else has taken the request since, so the engine may restore it.
local function standing(state, stored_fence, fence)
  stored_fence = tonumber(stored_fence or 0)
  if state == 'leased' and stored_fence == fence then return HELD end
  if state == 'ended' or stored_fence > fence then return VOID end
  return FORGOTTEN
end

-- Fences follow the clock, so that they grow even when Redis forgot the ones before.
local function next_fence(id, now)
  local stored = tonumber(redis.call('HGET', request_key(id), 'fence') or 0)
  return math.max(stored + 1, now)
end

local function is_too_late(id, now)
  local deadline_at = tonumber(redis.call('HGET', request_key(id), 'deadline_at') or 0)
  return deadline_at > 0 and deadline_at <= now
end

-- Whether it has come past where it was at the last crash. One token proves nothing: it may come of the prompt's last slice,
-- and the batch be what kills.
local function is_proven(tokens, tokens_at_crash) return tonumber(tokens) > tonumber(tokens_at_crash) + 1 end

local function clear_suspect(engine, id)
  if redis.call('GET', suspect_key(engine)) == id then
    redis.call('DEL', suspect_key(engine))
  end
end

-- The engine computed something for it: what was delivered is what the person used.
local function with_usage(event, prompt_tokens, tokens)
  if tonumber(tokens or 0) == 0 then return event end
  local plain = cjson.decode(event)
  plain.usage = {
    prompt_tokens = tonumber(prompt_tokens),
    completion_tokens = tonumber(tokens),
  }
  return cjson.encode(plain)
end
