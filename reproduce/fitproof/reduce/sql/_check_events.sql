-- Grain: the first bad line. Inputs: raw_events, raw_attempts. No row: all is well.
-- A trace's clock never runs backwards; stages do not nest, and an end names the stage and step that began last.
WITH ordered AS (
    SELECT attempt_key, line, t_ns, lag(t_ns) OVER (PARTITION BY attempt_key ORDER BY line) AS before_ns
    FROM raw_events
), boundaries AS (
    SELECT attempt_key, line, event, stage, step,
           lag(event) OVER w AS before_event, lag(stage) OVER w AS before_stage, lag(step) OVER w AS before_step
    FROM raw_events
    WHERE event IN ('stage_begin', 'stage_end')
    WINDOW w AS (PARTITION BY attempt_key ORDER BY line)
), bad AS (
    SELECT attempt_key, line, 'a clock that runs backwards' AS found, 't_ns at or after the line before' AS expected
    FROM ordered WHERE t_ns < before_ns
    UNION ALL
    SELECT attempt_key, line, 'an end of ' || stage || ', step ' || step, 'the stage and step that began before it'
    FROM boundaries
    WHERE event = 'stage_end'
      AND (before_event, before_stage, before_step) IS DISTINCT FROM ('stage_begin', stage, step)
    UNION ALL
    SELECT attempt_key, line, 'a begin of ' || stage || ' inside ' || before_stage, 'stages one after the other'
    FROM boundaries
    WHERE event = 'stage_begin' AND before_event = 'stage_begin'
)
SELECT a.archive, a.panel, a.slot_id, a.attempt_number, b.line, b.found, b.expected
FROM bad AS b
JOIN raw_attempts AS a USING (attempt_key)
ORDER BY attempt_key, line, found LIMIT 1
