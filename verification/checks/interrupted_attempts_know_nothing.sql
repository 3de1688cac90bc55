-- Proves: an interrupted attempt has no result, and every other attempt has one.
SELECT attempt_id, status, wall_seconds, device_seconds, completed_steps, ended_at, exit_code, signal
FROM attempts
WHERE CASE WHEN status = 'interrupted'
           THEN coalesce(wall_seconds, device_seconds, completed_steps, exit_code, signal) IS NOT NULL OR ended_at IS NOT NULL
           ELSE wall_seconds IS NULL OR device_seconds IS NULL OR completed_steps IS NULL OR ended_at IS NULL
      END
