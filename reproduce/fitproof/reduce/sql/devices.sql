-- Grain: device and software stack. Inputs: raw_environments, core_stacks, core_attempts. Left out: allocator settings,
-- which are a setting of the configuration, and the digest of the card itself.
WITH described AS (
    SELECT k.stack_id, e.* EXCLUDE (attempt_key, device_digest), k.device_digest, a.started_at, a.is_trial
    FROM raw_environments AS e
    JOIN core_stacks AS k USING (attempt_key)
    JOIN core_attempts AS a USING (attempt_key)
)
SELECT stack_id, device_name, driver_version, compute_capability, driver_total_bytes, monitor_total_bytes, torch, cuda,
       transformers, peft, bitsandbytes, python, os, host_memory_bytes, host_cores,
       nullif(count(DISTINCT device_digest), 0) AS cards,
       count(*) AS attempts,
       count(*) FILTER (is_trial) AS trials,
       min(started_at) AS first_started_at,
       max(started_at) AS last_started_at
FROM described
GROUP BY stack_id, device_name, driver_version, compute_capability, driver_total_bytes, monitor_total_bytes, torch, cuda,
         transformers, peft, bitsandbytes, python, os, host_memory_bytes, host_cores
