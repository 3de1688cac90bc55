-- Proves: of the versions of one method for one configuration exactly one is the latest, and none was frozen after it.
SELECT configuration_id, method, count(*) FILTER (is_latest) AS latest, max(frozen_at) AS last
FROM predictions GROUP BY ALL
HAVING latest <> 1 OR max(frozen_at) FILTER (is_latest) <> last
