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
	printLink := func(url string) error {
		if (c.output == "table" || c.output == "wide") && c.template == "" && !c.quiet {
			return line(c.Out, url) // whole on every terminal
		}
		return one(c, t, textFields(map[string]string{"url": url}))
	}
	var many manyFlags
	cmd := &cobra.Command{
		Use: "ui", Short: "Print a link to the web UI, or serve it for many servers", Args: atMost(0, "none"),
		Long: "ui prints a link that opens the web UI of the server in a browser on this machine. For a loopback port " +
			"the link has a key, which gives full control: do not share it. The key ends when the server ends, or " +
			"after a day without use. The page removes it from the address bar.\n\n" +
			"With --servers it serves a page of its own for many independent servers, until Ctrl-C. A server that is " +
			"slow, down or of another version is marked and delays no other.",
		Example: "  cantina ui\n  xdg-open \"$(cantina ui)\"\n  cantina ui --servers db1:7480,db2:7480\n" +
			"  cantina ui --servers /etc/cantina/servers --servers-allow .db.example.com",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if many.servers != "" {
				return c.untilSignal(func() error { return many.run(c, printLink) })
			}
			for _, name := range []string{"servers-allow", "listen", "server-timeout", "ready-fd"} {
				if cmd.Flags().Changed(name) {
					return failf(api.ExitUsage, "--%s needs --servers", name)
				}
			}
			got, err := call(c, calls.CreateBrowserKey, &pb.CreateBrowserKeyRequest{})
			if err != nil {
				return err
			}
			client, err := c.client()
			if err != nil {
				return err
			}
			url, err := browserLink(client.Address(), got, guard.PagePath)
			if err != nil {
				return err
			}
			return printLink(url)
		},
	}
	many.add(cmd)
	return c.reading(cmd)
}

// browserLink is the link to a page of the web UI of a server that was called at address. A server that was called
// at its socket names its port.
func browserLink(address string, b *pb.CreateBrowserKeyResponse, page string) (string, error) {
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
	url := fmt.Sprintf("%s://%s%s", scheme, address, page)
	if b.Key != "" {
		url += "#key=" + b.Key
	}
	return url, nil
}
