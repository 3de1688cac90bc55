-- Grain: interval of an attempt of the batch, from one stage begin, stage end or failure to the next. Input: batch_events.
-- Only an interval that a stage begin opens has a stage: what lies between stages and after a failure has none.
-- The stretch before the first begin is interval 0 and has no row here.
SELECT attempt_key,
       row_number() OVER w AS interval,
       CASE WHEN event = 'stage_begin' THEN stage END AS stage,
       CASE WHEN event = 'stage_begin' THEN step END AS step,
       t_ns AS begin_ns,
       coalesce(lead(t_ns) OVER w, 9223372036854775807) AS next_ns
FROM batch_events
WHERE event IN ('stage_begin', 'stage_end', 'failure')
WINDOW w AS (PARTITION BY attempt_key ORDER BY line)
