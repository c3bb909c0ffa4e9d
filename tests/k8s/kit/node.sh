#!/bin/sh
# Makes a Kubernetes node of this guest. Usage:
#   node.sh prepare                      installs the kubelet and the images that are at hand, for an image of the guest
#   node.sh NAME ADDRESS SERVICE PORT    starts containerd and the kubelet, also after a reboot, and imports images that
#                                        are new. ADDRESS: of the API server as this guest sees it; SERVICE: the address
#                                        of its service; PORT: its port. /etc/kubelet.conf is the kubelet's kubeconfig
set -eu
extra=/opt/quarry/extra
logs=/var/log/k8s
mkdir -p "$logs" /etc/cni/net.d /etc/containerd /etc/kubernetes/manifests

note() { echo "$(cut -d' ' -f1 /proc/uptime) $*"; }

start_containerd() {
  cat >/etc/containerd/config.toml <<END
version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "quarry.test/pause:1"
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
END
  setsid containerd >>"$logs/containerd.log" 2>&1 &
  containerd=$!
  tries=0
  until ctr version >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { tail "$logs/containerd.log"; exit 1; }
    sleep 0.2
  done
  note "containerd answers"
}

import_images() {
  for archive in "$extra"/*.tar; do
    mark=/var/lib/imported-$(basename "$archive")
    if [ ! -e "$mark" ]; then
      ctr -n k8s.io images import "$archive" >/dev/null
      touch "$mark"
    fi
    note "imported $(basename "$archive")"
  done
}

if [ "$1" = prepare ]; then
  modprobe overlay
  install "$extra/kubelet" /usr/local/bin/
  start_containerd
  import_images
  # Its layers stay, but not its name: that is for the build under test.
  for name in $(ctr -n k8s.io images list -q | grep /quarryd:); do
    ctr -n k8s.io images tag "$name" quarry.test/earlier:1
    ctr -n k8s.io images remove "$name"
  done
  kill "$containerd"
  wait "$containerd" || true
  exit
fi
name=$1 api=$2 service=$3 port=$4

# loop: the kubelet holds each raw block volume with a loop device.
modprobe -a overlay veth virtio_net br_netfilter loop dm_mod
echo "$name" >/proc/sys/kernel/hostname
grep -q " $name\$" /etc/hosts || echo "127.0.0.1 $name" >>/etc/hosts
touch /etc/resolv.conf
# As a service manager would: runc refuses other mounts for a pod that mounts for its host.
mount --make-rshared /
ip link set lo up
tries=0
until [ -e /sys/class/net/eth0 ]; do
  tries=$((tries + 1))
  [ $tries -lt 100 ] || { echo "no network device"; exit 1; }
  sleep 0.1
done
ip address replace 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route replace default via 10.0.2.2
echo 1 >/proc/sys/net/ipv4/ip_forward
# One rule for all pods; the plugin would make some for each, and an emulated iptables is slow.
iptables -t nat -C POSTROUTING -s 10.88.0.0/16 ! -d 10.88.0.0/16 -j MASQUERADE 2>/dev/null ||
  iptables -t nat -A POSTROUTING -s 10.88.0.0/16 ! -d 10.88.0.0/16 -j MASQUERADE
# The only service that pods need here. kube-proxy would do this, and more.
for chain in OUTPUT PREROUTING; do
  iptables -t nat -C "$chain" -d "$service" -p tcp --dport 443 -j DNAT --to "$api:$port" 2>/dev/null ||
    iptables -t nat -A "$chain" -d "$service" -p tcp --dport 443 -j DNAT --to "$api:$port"
done

cat >/etc/cni/net.d/10-pods.conflist <<END
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": [[{"subnet": "10.88.0.0/16"}]],
    "routes": [{"dst": "0.0.0.0/0"}]}}]}
END

start_containerd

cat >/etc/kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
enforceNodeAllocatable: []
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failSwapOn: false
port: 10250
readOnlyPort: 0
resolvConf: /etc/resolv.conf
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: "0%", imagefs.available: "0%", memory.available: "0%", nodefs.inodesFree: "0%"}
runtimeRequestTimeout: 5m
syncFrequency: 20s
volumeStatsAggPeriod: 20s
END
# A program of its own, so that a test can end it and start it again. By default the kubelet measures each container every
# 10 s, which takes an eighth of its processor time in an emulated guest.
cat >/usr/local/bin/start-kubelet <<END
#!/bin/sh
setsid kubelet --config=/etc/kubelet.yaml --kubeconfig=/etc/kubelet.conf --hostname-override=$name \\
  --node-ip=10.0.2.15 --housekeeping-interval=60s --v=2 >>$logs/kubelet.log 2>&1 &
echo \$! >/run/kubelet.pid
END
chmod +x /usr/local/bin/start-kubelet
start-kubelet
note "the kubelet is started"
import_images
