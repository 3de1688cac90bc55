-- Proves: the attempts of a slot are numbered 1, 2, 3 ... in the order in which they started.
SELECT attempt_id, attempt_number, place
FROM (
    SELECT attempt_id, attempt_number,
           row_number() OVER (PARTITION BY panel, campaign, slot_id, configuration_id ORDER BY started_at, attempt_number) AS place
    FROM attempts
)
WHERE attempt_number <> place
