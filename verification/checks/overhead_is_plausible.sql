-- Proves: the process overhead of a GPU trial lies between 0 and 2 GiB; more would mean that a sample was matched to
-- the wrong moment. A CPU trial has none.
SELECT trial_id, device, process_overhead_bytes
FROM trials
WHERE CASE WHEN device = 'cpu' THEN process_overhead_bytes IS NOT NULL
           ELSE process_overhead_bytes NOT BETWEEN 0 AND 2147483648 END
