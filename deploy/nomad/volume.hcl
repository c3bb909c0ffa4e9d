# A volume with a file system: nomad volume create volume.hcl
id        = "postgres"
name      = "postgres"
type      = "csi"
plugin_id = "quarry-worker-1" # the client that the volume is made on

capacity_min = "10GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

mount_options {
  fs_type = "ext4" # or xfs, btrfs
}

# The keys are those of the README: pool, type, mirrors, stripes, erase and others.
parameters {
  type = "raid1"
}
