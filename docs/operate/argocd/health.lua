-- Health of all kinds of Flotilla, in each version, for Argo CD: by the conditions Ready, Reconciling and Stalled.
local health = { status = "Progressing", message = "no controller has observed this generation yet" }
if obj.metadata.deletionTimestamp ~= nil then
  health.message = "it is being deleted"
  return health
end
local status = obj.status or {}
if status.observedGeneration == nil and obj.metadata.labels ~= nil and obj.metadata.labels["fleet.kruise.io/template"] == "true" then
  return { status = "Healthy", message = "a template, which runs in other clusters" }
end
if status.observedGeneration ~= obj.metadata.generation then
  return health
end
health.message = "no condition tells how far it is"
for _, c in ipairs(status.conditions or {}) do
  if c.status == "True" then
    if c.type == "Stalled" then
      return { status = "Degraded", message = c.message }
    elseif c.type == "Reconciling" then
      if c.reason == "Paused" then
        return { status = "Suspended", message = c.message }
      end
      health.message = c.message
    elseif c.type == "Ready" then
      return { status = "Healthy", message = c.message }
    end
  end
end
return health
