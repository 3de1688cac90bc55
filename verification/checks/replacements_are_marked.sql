-- Proves: is_replacement says whether an earlier attempt of the slot was ineligible.
SELECT attempt_id, is_replacement, earlier
FROM (
    SELECT attempt_id, is_replacement,
           count(*) FILTER (status = 'ineligible') OVER (
               PARTITION BY panel, campaign, slot_id, configuration_id ORDER BY attempt_number
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           ) AS earlier
    FROM attempts
)
WHERE is_replacement <> (earlier > 0)
