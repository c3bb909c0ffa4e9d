# A volume without a file system: nomad volume create raw-volume.hcl
id        = "scratch"
name      = "scratch"
type      = "csi"
plugin_id = "quarry-worker-1" # the client that the volume is made on

capacity_min = "10GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "block-device"
}

# Empty, but Nomad does not grow a volume in use without it.
mount_options {}

parameters {
  type = "linear"
}
