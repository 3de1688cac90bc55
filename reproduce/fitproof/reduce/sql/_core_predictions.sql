-- Grain: configuration x method x method version. Inputs: raw_predictions, raw_slots, core_trials, core_configurations.
-- Left out: repetitions of one answer in files frozen at other times. The file that the plan names is kept, else the one
-- frozen first (of equal times the smaller digest).
-- Prospective: every eligible trial of the configuration's first campaign carries a plan that names the file. Latest: of
-- the versions of one method for one configuration the one frozen last.
WITH plans AS (
    SELECT DISTINCT panel, campaign, slot_id, configuration_id, predictions_digest FROM raw_slots
), named AS (
    SELECT t.configuration_id, any_value(p.predictions_digest ORDER BY p.predictions_digest) AS named_digest
    FROM core_trials AS t
    JOIN core_configurations AS c USING (configuration_id, campaign)
    JOIN plans AS p USING (panel, campaign, slot_id, configuration_id)
    GROUP BY t.configuration_id
    HAVING count(p.predictions_digest) = count(*) AND count(DISTINCT p.predictions_digest) = 1
), versions AS (
    SELECT r.*, r.predictions_digest IS NOT DISTINCT FROM n.named_digest AS is_prospective
    FROM raw_predictions AS r
    LEFT JOIN named AS n USING (configuration_id)
    QUALIFY row_number() OVER (
        PARTITION BY configuration_id, method, method_version
        ORDER BY is_prospective DESC, frozen_at, predictions_digest) = 1
)
SELECT * REPLACE (frozen_at::TIMESTAMP AS frozen_at),
       row_number() OVER (PARTITION BY configuration_id, method ORDER BY frozen_at DESC, method_version DESC) = 1 AS is_latest
FROM versions
