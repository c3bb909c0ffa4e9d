# Makes Nomad use a quarryd that is a service of the host (deploy/systemd). Run the job once for each client:
#
#   nomad job run -var node=worker-1 host-service.nomad.hcl
#
# Stopping or updating this job does not touch quarryd.

variable "node" {
  type        = string
  description = "The name of the client, as `nomad node status` shows it."
}

variable "data_dir" {
  type        = string
  default     = "/opt/nomad/data"
  description = "data_dir of the client's configuration."
}

variable "socket" {
  type        = string
  default     = "/run/quarry/csi.sock"
  description = "The path of quarryd's --endpoint on the host."
}

job "quarry" {
  id   = "quarry-${var.node}"
  name = "quarry-${var.node}"
  type = "system"

  constraint {
    attribute = "${node.unique.name}"
    value     = var.node
  }

  group "socket" {
    restart {
      attempts = 10
      interval = "5m"
      delay    = "5s"
      mode     = "delay"
    }

    task "socket" {
      driver = "raw_exec"
      user   = "root"

      csi_plugin {
        id                     = "quarry-${var.node}"
        type                   = "monolith"
        stage_publish_base_dir = "${var.data_dir}/client/csi/monolith/quarry-${var.node}"
        health_timeout         = "2m"
      }

      config {
        command = "/bin/sh"
        # Nomad connects to the socket of CSI_ENDPOINT (unix://PATH). Here that is a link to the service's socket.
        args = ["-c", "ln -sfn '${var.socket}' \"$(echo $CSI_ENDPOINT | cut -c 8-)\" && exec sleep infinity"]
      }

      resources {
        cpu    = 10
        memory = 32
      }
    }
  }
}
