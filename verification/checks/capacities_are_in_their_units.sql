-- Proves: MiB are MiB and bytes are bytes: the effective capacity is what was asked for, within 10 %, and an emulated
-- one stands beside a ballast.
SELECT trial_id, capacity_mib, effective_capacity_bytes, capacity_source, ballast_bytes
FROM trials
WHERE effective_capacity_bytes NOT BETWEEN capacity_mib * 1048576 * 0.9 AND capacity_mib * 1048576 * 1.1
   OR (capacity_source = 'emulated' AND coalesce(ballast_bytes, 0) = 0)
   OR (capacity_source = 'device' AND ballast_bytes > 0)
