// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/**
 * The locks of this pod, in a program outside of the cluster (test/apps/locks). It sees whether two pods run the same cart at once. All
 * locks of the pod are given back when the connection ends.
 */
interface Locks {
  /** Waits until the program knows that an entity runs here. */
  void take(String entity);

  /** Waits until the program knows that an entity does not run here any more. */
  void give(String entity);

  /** Locks that nothing sees. */
  static Locks none() {
    return new Locks() {
      @Override
      public void take(String entity) {}

      @Override
      public void give(String entity) {}
    };
  }

  /**
   * Connects to the program.
   *
   * @param address is host:port; empty for none
   */
  static Locks at(String address, String pod) throws IOException {
    return address.isEmpty() ? none() : new Connection(address, pod);
  }

  /** A connection to the program, which answers each line with a line. */
  final class Connection implements Locks {
    private static final int WITHIN_MILLIS = 5000;
    private final Socket socket = new Socket();
    private final BufferedReader answers;

    private Connection(String address, String pod) throws IOException {
      int colon = address.lastIndexOf(':');
      socket.connect(new InetSocketAddress(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1))), WITHIN_MILLIS);
      socket.setSoTimeout(WITHIN_MILLIS);
      socket.setTcpNoDelay(true);
      answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
      write("POST /hold?pod=" + pod + " HTTP/1.1\r\nHost: locks\r\nContent-Length: 0\r\n\r\n");
      String status = answers.readLine();
      if (status == null || !status.startsWith("HTTP/1.1 101 ")) {
        throw new IOException("LOCKS=" + address + " answers " + status);
      }
      String header = status;
      while (header != null && !header.isEmpty()) {
        header = answers.readLine();
      }
    }

    @Override
    public void take(String entity) {
      say("take " + entity);
    }

    @Override
    public void give(String entity) {
      say("give " + entity);
    }

    /** Does not look at who else holds the lock: the program records it. */
    private synchronized void say(String line) {
      try {
        write(line + "\n");
        String answer = answers.readLine();
        if (answer == null || !(answer.equals("ok") || answer.startsWith("held by "))) {
          throw new IOException("the answer is " + answer);
        }
      } catch (IOException e) {
        // Without locks, a test would see nothing of this cart.
        throw new IllegalStateException(line + ": " + e.getMessage(), e);
      }
    }

    private void write(String text) throws IOException {
      socket.getOutputStream().write(text.getBytes(StandardCharsets.US_ASCII));
    }
  }
}
