# Runs quarryd on one client of Nomad. Run the job once for each client:
#
#   nomad job run -var node=worker-1 -var pool=default=vg-data quarryd.nomad.hcl
#
# Each client has a plugin id of its own. Nomad sends every call of a plugin id to one of its clients, and a volume lies
# on one client, so two clients must not share an id.

variable "node" {
  type        = string
  description = "The name of the client, as `nomad node status` shows it. It is also quarryd's node id."
}

variable "pool" {
  type        = string
  description = "The pool: NAME=VG, and more keys after a comma, as --pool of quarryd takes it."
}

variable "data_dir" {
  type        = string
  default     = "/opt/nomad/data"
  description = "data_dir of the client's configuration."
}

variable "quarryd" {
  type        = string
  default     = "/usr/bin/quarryd"
  description = "The path of the program on the client."
}

job "quarry" {
  id   = "quarry-${var.node}"
  name = "quarry-${var.node}"
  # Nomad drains and preempts system jobs last, so volumes can be unmounted while a client is drained.
  type = "system"

  constraint {
    attribute = "${node.unique.name}"
    value     = var.node
  }

  group "quarryd" {
    restart {
      attempts = 10
      interval = "5m"
      delay    = "5s"
      mode     = "delay"
    }

    task "quarryd" {
      # No namespace and no chroot: LVM and the mounts are those of the host.
      driver = "raw_exec"
      user   = "root"
      # quarryd needs at most 28 s to stop.
      kill_timeout = "35s"

      csi_plugin {
        id   = "quarry-${var.node}"
        type = "monolith"
        # The folder where Nomad expects the mounts. By default Nomad names it as a container would see it.
        stage_publish_base_dir = "${var.data_dir}/client/csi/monolith/quarry-${var.node}"
        # The first start reads all disks. Nomad restarts a plugin that is not ready by then.
        health_timeout = "2m"
      }

      config {
        command = var.quarryd
        # Nomad passes the socket in CSI_ENDPOINT. It does not repeat calls, so they wait while a volume is busy.
        args = ["--node-id", var.node, "--pool", var.pool, "--patient"]
      }

      resources {
        cpu    = 200
        memory = 512
      }
    }
  }
}
