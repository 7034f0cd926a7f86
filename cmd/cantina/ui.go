package main

import (
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"cantina/api"
	"cantina/internal/guard"
	pb "cantina/wire/cantinav1"
)

func uiVerb(c *cli) *cobra.Command {
	link := textOfField("url")
	t := table[*structpb.Struct]{id: link, columns: []column[*structpb.Struct]{{name: "URL", text: link}}}
	cmd := &cobra.Command{
		Use: "ui", Short: "Print a link to the web UI", Args: atMost(0, "none"),
		Long: "ui prints a link that opens the web UI of the server in a browser on this machine. For a loopback port " +
			"the link has a key, which gives full control: do not share it. The key ends when the server ends, or " +
			"after a day without use. The page removes it from the address bar.",
		Example: "  cantina ui\n  xdg-open \"$(cantina ui)\"",
		RunE: func(*cobra.Command, []string) error {
			got, err := call(c, calls.CreateBrowserKey, &pb.CreateBrowserKeyRequest{})
			if err != nil {
				return err
			}
			client, err := c.client()
			if err != nil {
				return err
			}
			url, err := browserLink(client.Address(), got)
			if err != nil {
				return err
			}
			if (c.output == "table" || c.output == "wide") && c.template == "" && !c.quiet {
				return line(c.Out, url) // whole on every terminal
			}
			return one(c, t, textFields(map[string]string{"url": url}))
		},
	}
	return c.reading(cmd)
}

// browserLink is the link to the web UI of a server that was called at address. A server that was called
// at its socket names its port.
func browserLink(address string, b *pb.CreateBrowserKeyResponse) (string, error) {
	if strings.HasPrefix(address, "unix:") {
		if len(b.Addresses) == 0 {
			return "", failf(api.ExitFailed, "the server listens on no port that a browser can reach; start it with --listen")
		}
		address = b.Addresses[0]
	}
	if host, port, err := net.SplitHostPort(address); err == nil {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			address = net.JoinHostPort("localhost", port)
		}
	}
	scheme := "http"
	if b.Tls {
		scheme = "https"
	}
	url := fmt.Sprintf("%s://%s%s", scheme, address, guard.PagePath)
	if b.Key != "" {
		url += "#key=" + b.Key
	}
	return url, nil
}
