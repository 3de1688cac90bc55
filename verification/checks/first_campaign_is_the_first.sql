-- Proves: a configuration's campaign is the one whose first attempt started first; attempts and panel come from it.
WITH started AS (
    SELECT configuration_id, arg_min(campaign, (started_at, campaign)) AS first_campaign, count(DISTINCT campaign) AS campaigns
    FROM attempts GROUP BY configuration_id
)
SELECT configuration_id, c.campaign, s.first_campaign, c.campaigns AS told, s.campaigns AS counted
FROM configurations c LEFT JOIN started s USING (configuration_id)
WHERE c.campaign IS DISTINCT FROM s.first_campaign OR c.campaigns <> coalesce(s.campaigns, 0)
