package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// ttl is short because tests delete and recreate Services with the same name.
	ttl = 5 // Seconds.
	// plainSize is the maximum size of a UDP message for clients without EDNS.
	plainSize = 512
	// maxSize is the maximum size of any UDP message. Messages of this size are never fragmented.
	maxSize = 1232
	// streamTimeout is how long a connection may be idle.
	streamTimeout = 5 * time.Second
	// maxAliases limits the chain of aliases that the server follows for its clients.
	maxAliases = 8
)

// servePackets answers UDP queries until the socket is closed.
func servePackets(conn net.PacketConn, z zone) {
	buf := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // It concerns a single packet: for example, the client is gone.
		}
		if out := reply(z, buf[:n], true); out != nil {
			_, _ = conn.WriteTo(out, from)
		}
	}
}

// serveStreams answers TCP queries until the listener is closed.
func serveStreams(listener net.Listener, z zone) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go serveStream(conn, z)
	}
}

func serveStream(conn net.Conn, z zone) {
	defer func() { _ = conn.Close() }()
	for {
		if conn.SetDeadline(time.Now().Add(streamTimeout)) != nil {
			return
		}
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		in := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, in); err != nil {
			return
		}
		out := reply(z, in, false)
		if out == nil || len(out) > 0xffff {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
			return
		}
	}
}

// reply returns the answer to a message, or nil if the message is not a query.
func reply(z zone, in []byte, packet bool) []byte {
	var parser dnsmessage.Parser
	header, err := parser.Start(in)
	if err != nil || header.Response {
		return nil
	}
	question, err := parser.Question()
	if err != nil {
		return nil
	}
	out := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: header.ID, Response: true, OpCode: header.OpCode,
			Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
		},
		Questions: []dnsmessage.Question{question},
	}
	for name, left := question.Name, maxAliases; left > 0; left-- {
		bodies, found := z.lookup(strings.ToLower(strings.TrimSuffix(name.String(), ".")), question.Type)
		out.RCode = dnsmessage.RCodeSuccess
		if !found {
			out.RCode = dnsmessage.RCodeNameError
		}
		alias := false
		for _, body := range bodies {
			out.Answers = append(out.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: ttl},
				Body:   body,
			})
			if cname, ok := body.(*dnsmessage.CNAMEResource); ok {
				name, alias = cname.CNAME, true
			}
		}
		if !alias {
			break
		}
	}
	data, err := out.Pack()
	if err == nil && packet && len(data) > acceptedSize(&parser) {
		out.Truncated, out.Answers = true, nil // The client retries over TCP.
		data, err = out.Pack()
	}
	if err != nil {
		return nil
	}
	return data
}

// acceptedSize returns the maximum size of an answer that the client accepts over UDP.
func acceptedSize(parser *dnsmessage.Parser) int {
	if parser.SkipAllQuestions() != nil || parser.SkipAllAnswers() != nil || parser.SkipAllAuthorities() != nil {
		return plainSize
	}
	for {
		header, err := parser.AdditionalHeader()
		if err != nil {
			return plainSize
		}
		if header.Type == dnsmessage.TypeOPT {
			return max(plainSize, min(maxSize, int(header.Class)))
		}
		if parser.SkipAdditional() != nil {
			return plainSize
		}
	}
}
