// App is what the pods of the lab's own tests run. It serves its version, fetches
// what it is told to, and refuses whatever it is asked to admit.
package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	version, err := os.ReadFile("/version")
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(version) })
	http.HandleFunc("/get", get)
	http.HandleFunc("/admit", admit)
	if cert := os.Getenv("CERT"); cert != "" {
		pair, err := tls.X509KeyPair([]byte(cert), []byte(os.Getenv("KEY")))
		if err != nil {
			log.Fatal(err)
		}
		server := &http.Server{Addr: ":8443", TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
		go func() { log.Fatal(server.ListenAndServeTLS("", "")) }()
	}
	log.Fatal(http.ListenAndServe(":"+os.Getenv("PORT"), nil))
}

// get fetches the parameter "url" from here.
func get(w http.ResponseWriter, r *http.Request) {
	client := &http.Client{
		Timeout:   3 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	answer, err := client.Get(r.FormValue("url"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

func admit(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"response": {"uid": %q, "allowed": false, "status": {"message": "a pod said no"}}}`, review.Request.UID)
}
