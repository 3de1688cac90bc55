-- Grain: attempt that described its environment. Input: raw_environments. The id is over the columns that view devices
-- shows, as text with a unit separator; a null is a text that no value has.
SELECT attempt_key, device_digest,
       left(sha256(concat_ws(chr(31), device_name, coalesce(driver_version, chr(30)), coalesce(compute_capability, chr(30)),
           coalesce(driver_total_bytes::VARCHAR, chr(30)), coalesce(monitor_total_bytes::VARCHAR, chr(30)), torch,
           coalesce(cuda, chr(30)), transformers, coalesce(peft, chr(30)), coalesce(bitsandbytes, chr(30)), python, os,
           host_memory_bytes, host_cores)), 16) AS stack_id
FROM raw_environments
