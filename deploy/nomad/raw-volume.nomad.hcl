# A job that uses the raw volume of raw-volume.hcl. Nomad starts it on the client that has the volume.
#
# The drivers exec and java show the device to their tasks, but do not let them open it: they allow only a fixed list of
# devices. A raw_exec task can open it, by its path on the host.

variable "plugin_id" {
  type        = string
  default     = "quarry-worker-1"
  description = "The plugin_id of the volume."
}

variable "data_dir" {
  type        = string
  default     = "/opt/nomad/data"
  description = "data_dir of the client's configuration."
}

job "scratch" {
  group "scratch" {
    volume "disk" {
      type            = "csi"
      source          = "scratch"
      access_mode     = "single-node-writer"
      attachment_mode = "block-device"
    }

    # Nomad provides the volumes of a group only if the driver of at least one task can mount volumes.
    task "hold" {
      driver = "exec"

      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }

      resources {
        cpu    = 10
        memory = 64
      }
    }

    task "write" {
      driver = "raw_exec"

      env {
        DISK = "${var.data_dir}/client/csi/monolith/${var.plugin_id}/per-alloc/${NOMAD_ALLOC_ID}/scratch/rw-block-device-single-node-writer"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "blockdev --getsize64 \"$DISK\" && exec sleep infinity"]
      }
    }
  }
}
