-- Proves: every attempt was planned (its slot stands in panel_slots), and each slot counts exactly its own attempts.
SELECT panel, campaign, slot_id, configuration_id, s.attempts AS told, a.attempts AS counted
FROM panel_slots s
FULL JOIN (
    SELECT panel, campaign, slot_id, configuration_id, count(*) AS attempts FROM attempts GROUP BY ALL
) a USING (panel, campaign, slot_id, configuration_id)
WHERE coalesce(a.attempts, 0) IS DISTINCT FROM s.attempts
