-- Grain: interval of an attempt of the batch, from one stage begin, stage end or failure to the next. Inputs: batch_events,
-- batch_memory. Only an interval that a stage begin opens has a stage: what lies between stages and after a failure has
-- none. Interval 0 is the stretch from the first sample to the first begin. The first sample's time is the trace's zero.
WITH boundaries AS (
    SELECT attempt_key, line, event, stage, step, t_ns FROM batch_events
    WHERE event IN ('stage_begin', 'stage_end', 'failure')
    UNION ALL
    SELECT attempt_key, 0, 'first sample', NULL, NULL, t_ns FROM batch_memory WHERE sample = 0
)
SELECT attempt_key,
       count(*) FILTER (line > 0) OVER w AS interval,
       CASE WHEN event = 'stage_begin' THEN stage END AS stage,
       CASE WHEN event = 'stage_begin' THEN step END AS step,
       first_value(t_ns) OVER w AS first_ns,
       t_ns AS begin_ns,
       coalesce(lead(t_ns) OVER w, 9223372036854775807) AS next_ns
FROM boundaries
WINDOW w AS (PARTITION BY attempt_key ORDER BY line)
