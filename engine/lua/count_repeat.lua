-- intake: this request is tried once more than when it was read first. Returns how often so; 0 when
-- Redis has forgotten it meanwhile, for a hash made here would look like a request that is known.
local id = unpack(ARGV)
if redis.call('EXISTS', request_key(id)) == 0 then return 0 end
return redis.call('HINCRBY', request_key(id), 'intake_repeats', 1)
