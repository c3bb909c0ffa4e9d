# A job that uses the volume of volume.hcl. Nomad starts it on the client that has the volume.
job "postgres" {
  group "postgres" {
    volume "data" {
      type            = "csi"
      source          = "postgres"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "write" {
      driver = "exec"

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "date >>/data/starts && cat /data/starts && exec sleep infinity"]
      }
    }
  }
}
