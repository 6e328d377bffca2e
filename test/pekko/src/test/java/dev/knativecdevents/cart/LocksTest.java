// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class LocksTest {
  @Test
  void waitsForEachAnswer() throws Exception {
    try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      CompletableFuture<List<String>> heard = CompletableFuture.supplyAsync(() -> serve(server, List.of("ok", "held by other", "no")));
      Locks locks = Locks.at("127.0.0.1:" + server.getLocalPort(), "pod-1");
      locks.take("a");
      locks.take("b"); // The program records it.
      assertThrows(IllegalStateException.class, () -> locks.give("c"));
      List<String> want = List.of("POST /hold?pod=pod-1 HTTP/1.1", "Host: locks", "Content-Length: 0", "", "take a", "take b", "give c");
      assertEquals(want, heard.get());
    }
  }

  private static List<String> serve(ServerSocket server, List<String> answers) {
    List<String> heard = new ArrayList<>();
    try (Socket socket = server.accept()) {
      BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
      String line;
      do {
        line = in.readLine();
        heard.add(line);
      } while (!line.isEmpty());
      socket.getOutputStream().write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: locks\r\n\r\n".getBytes());
      for (String answer : answers) {
        heard.add(in.readLine());
        socket.getOutputStream().write((answer + "\n").getBytes());
      }
      return heard;
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }
}
