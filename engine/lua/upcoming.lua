-- The long prompts that the next pull of these models may choose among, in order of service as it stands: {id, payload} each,
-- the payload of a few that the engine does not know. ARGV: how many models, models..., ids that it knows...
local MAX_TENANTS, MAX_OF_TENANT, MAX_OF_MODEL = 32, 32, 64
local ENOUGH_TOKENS = 16000 -- of payloads: an engine reads them in a millisecond or two, beside its steps
local num_models = tonumber(ARGV[1])
local known, upcoming, num_tokens = {}, {}, 0
for i = num_models + 2, #ARGV do known[ARGV[i]] = true end

local function payload(id)
  if known[id] or num_tokens >= ENOUGH_TOKENS then return false end
  local work, prompt_tokens = unpack(redis.call('HMGET', request_key(id), 'payload', 'prompt_tokens'))
  num_tokens = num_tokens + prompt_tokens
  return work
end

local function add(model, class, tenant, num_left)
  for _, id in ipairs(redis.call('ZRANGE', line_key(model, class, tenant), 0, MAX_OF_TENANT - 1)) do
    if num_left == 0 then break end
    if redis.call('SISMEMBER', long_key(model), id) == 1 then
      table.insert(upcoming, { id, payload(id) })
      num_left = num_left - 1
    end
  end
  return num_left
end

local function add_highest_class(model)
  for _, class in ipairs(CLASSES) do
    local first = first_of(model, class)
    if first then
      local num_left = MAX_OF_MODEL
      local tenants = redis.call('ZRANGEBYSCORE', ring_key(model, class), '-inf', first.clock + DEFICIT,
        'LIMIT', 0, MAX_TENANTS)
      for _, tenant in ipairs(tenants) do
        num_left = add(model, class, tenant, num_left)
      end
      return
    end
  end
end

for i = 2, num_models + 1 do
  local model = ARGV[i]
  if redis.call('SCARD', long_key(model)) > 1 then add_highest_class(model) end
end
return upcoming
