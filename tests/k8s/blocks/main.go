// Lists the blocks of a VolumeSnapshot as a backup program would: in a pod, with the pod's service account, by the client
// library of external-snapshot-metadata. Prints JSON: the messages of the stream.
//
//	list-blocks -driver DRIVER -namespace NAMESPACE -snapshot NAME [-previous NAME]
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"time"

	"github.com/kubernetes-csi/external-snapshot-metadata/pkg/iterator"
	"k8s.io/client-go/rest"
)

func main() {
	args := iterator.Args{Emitter: &iterator.JSONEmitter{Writer: os.Stdout}}
	flag.StringVar(&args.CSIDriver, "driver", "", "that has the snapshots")
	flag.StringVar(&args.Namespace, "namespace", "", "of the snapshots")
	flag.StringVar(&args.SnapshotName, "snapshot", "", "the VolumeSnapshot")
	flag.StringVar(&args.PrevSnapshotName, "previous", "", "an older one: list what has changed since")
	flag.Parse()
	log.SetFlags(0)

	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	if args.Clients, err = iterator.BuildClients(config); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := iterator.GetSnapshotMetadata(ctx, args); err != nil {
		log.Fatal(err)
	}
}
