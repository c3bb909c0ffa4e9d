# What the configuration of a Nomad client needs so that it can run quarryd. Put this file beside the client's others,
# for example into /etc/nomad.d/, and restart the agent. ../../docs/nomad.md explains it.

plugin "raw_exec" {
  config {
    enabled = true
  }
}
