-- Proves: the counts by status add up to the ledger, and the counts per slot too: nothing is lost, nothing counted twice.
SELECT * FROM (
    SELECT 'all attempts' AS what, (SELECT count(*) FROM attempts) AS found,
           (SELECT count(*) FROM trials)
           + (SELECT count(*) FROM attempts WHERE status IN ('ineligible', 'interrupted')) AS expected
    UNION ALL
    SELECT 'attempts of slots', (SELECT coalesce(sum(attempts), 0) FROM panel_slots), (SELECT count(*) FROM attempts)
)
WHERE found <> expected
