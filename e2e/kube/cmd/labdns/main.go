package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := pflag.String("kubeconfig", "", "how to reach the cluster")
	listen := pflag.String("listen", "127.0.0.1:53", "address and port, of UDP and of TCP")
	domain := pflag.String("domain", "cluster.local", "the cluster's domain")
	pflag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *kubeconfig, *listen, *domain)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "labdns: %v\n", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, kubeconfig, listen, domain string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	services := factory.Core().V1().Services().Informer()
	slices := factory.Discovery().V1().EndpointSlices().Informer()
	if err := slices.AddIndexers(byService()); err != nil {
		return fmt.Errorf("index endpoints: %w", err)
	}
	z := zone{domain: strings.ToLower(strings.Trim(domain, ".")), services: services.GetIndexer(), endpoints: slices.GetIndexer()}

	packets, err := net.ListenPacket("udp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	streams, err := net.Listen("tcp", packets.LocalAddr().String())
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if ctx.Err() == nil {
		fmt.Printf("serving %s on %s\n", z.domain, packets.LocalAddr())
	}

	var wg sync.WaitGroup
	wg.Go(func() { servePackets(packets, z) })
	wg.Go(func() { serveStreams(streams, z) })
	<-ctx.Done()
	_, _ = packets.Close(), streams.Close()
	wg.Wait()
	factory.Shutdown()
	return nil
}
