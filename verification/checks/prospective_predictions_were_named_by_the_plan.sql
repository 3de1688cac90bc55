-- Proves: a prediction is prospective exactly where every eligible trial of the configuration's first campaign carries a
-- plan that names its file; and such a file says that it was frozen before the first of these trials started.
WITH trials_of AS (
    SELECT t.configuration_id, count(*) AS trials, min(t.started_at) AS started_at,
           min(s.predictions_digest) AS least, max(s.predictions_digest) AS most, count(s.predictions_digest) AS named
    FROM trials t
    JOIN configurations c ON c.configuration_id = t.configuration_id AND c.campaign = t.campaign
    JOIN panel_slots s ON s.trial_id = t.trial_id
    GROUP BY t.configuration_id
)
SELECT p.configuration_id, p.method, p.method_version, p.is_prospective, p.frozen_at, t.started_at
FROM predictions p LEFT JOIN trials_of t USING (configuration_id)
WHERE p.is_prospective <> coalesce(t.named = t.trials AND t.least = t.most AND t.least = p.predictions_digest, false)
   OR (p.is_prospective AND p.frozen_at > t.started_at)
