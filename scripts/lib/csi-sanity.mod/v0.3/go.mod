module quarry/csi-sanity

go 1.16

require (
	github.com/container-storage-interface/spec v0.3.0
	github.com/golang/protobuf v1.3.5
	github.com/kubernetes-csi/csi-test v0.3.0-2
	github.com/onsi/ginkgo v1.10.3
	github.com/onsi/gomega v1.7.1
	golang.org/x/net v0.0.0-20190827160401-ba9fcec4b297
	google.golang.org/grpc v1.26.0
	gopkg.in/yaml.v2 v2.2.4
)
